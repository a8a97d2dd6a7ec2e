"""Creates a container in an emulator of Azure's blob storage: its endpoint, the container, the account and its key."""
import base64
import hashlib
import hmac
import sys
import urllib.request
from email.utils import formatdate

endpoint, container, account, key = sys.argv[1:]
date, version = formatdate(usegmt=True), "2021-08-06"
# Shared Key of Azure Storage: the verb, twelve empty headers, those of x-ms-, and the resource.
signed = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{version}\n/{account}/{account}/{container}\nrestype:container"
signature = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
headers = {
    "x-ms-date": date,
    "x-ms-version": version,
    "Authorization": f"SharedKey {account}:{base64.b64encode(signature).decode()}",
    "Content-Length": "0",
}
url = f"{endpoint}/{account}/{container}?restype=container"
urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers))
