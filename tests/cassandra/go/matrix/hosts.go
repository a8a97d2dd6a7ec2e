package main

import (
	"fmt"
	"sort"
	"sync"
)

// hosts notes what the driver tells a policy of nodes, and leaves the choice to the policy.
type hosts struct {
	selectionPolicy
	mutex sync.Mutex
	up    map[string]bool
	named map[string]string
}

func watching(policy selectionPolicy) *hosts {
	return &hosts{selectionPolicy: policy, up: map[string]bool{}, named: map[string]string{}}
}

func (h *hosts) note(host *hostInfo, up, gone bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	id := host.HostID()
	if gone {
		delete(h.up, id)
		return
	}
	h.up[id] = up
	h.named[id] = fmt.Sprintf("%s %s %s", host.ConnectAddressAndPort(), host.DataCenter(), host.Rack())
}

func (h *hosts) AddHost(host *hostInfo) {
	h.note(host, true, false)
	h.selectionPolicy.AddHost(host)
}

func (h *hosts) RemoveHost(host *hostInfo) {
	h.note(host, false, true)
	h.selectionPolicy.RemoveHost(host)
}

func (h *hosts) HostUp(host *hostInfo) {
	h.note(host, true, false)
	h.selectionPolicy.HostUp(host)
}

func (h *hosts) HostDown(host *hostInfo) {
	h.note(host, false, false)
	h.selectionPolicy.HostDown(host)
}

// those that are up, or are not, by name.
func (h *hosts) those(up bool) []string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	found := []string{}
	for id, is := range h.up {
		if is == up {
			found = append(found, h.named[id])
		}
	}
	sort.Strings(found)
	return found
}
