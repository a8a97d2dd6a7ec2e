//! Many connections, windows, and streams that do not end.
