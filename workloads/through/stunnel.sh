# A TLS tunnel with both ends in one stunnel: stunnel.sh PORT HOST:PORT
# Clients and the broker speak without TLS. The far end has the same port of another loopback address.
# The key is not secret: the tunnel never leaves this host.
exec stunnel -fd 0 <<END
foreground = quiet
pid =
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
ciphers = PSK
PSKsecrets = stunnel.psk
[near]
client = yes
accept = 127.0.0.1:$1
connect = 127.0.0.2:$1
[far]
accept = 127.0.0.2:$1
connect = $2
END
