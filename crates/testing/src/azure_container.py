"""Creates a container in an emulator of Azure's blob storage: `create.py http://127.0.0.1:10000 NAME`."""
import base64, hashlib, hmac, sys, urllib.request
from email.utils import formatdate
endpoint, container = sys.argv[1:]
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
date, version = formatdate(usegmt=True), "2021-08-06"
resource = f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
to_sign = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
signature = base64.b64encode(hmac.new(base64.b64decode(KEY), to_sign.encode(), hashlib.sha256).digest()).decode()
request = urllib.request.Request(f"{endpoint}/{ACCOUNT}/{container}?restype=container", method="PUT", headers={"x-ms-date": date, "x-ms-version": version, "Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"})
print(urllib.request.urlopen(request).status)
