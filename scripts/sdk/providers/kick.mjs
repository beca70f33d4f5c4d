import { createPrivateKey, createPublicKey, sign as rsa } from 'node:crypto'
import { sdk, validator } from '../nuxt.mjs'

const validate = await validator('kick', 'isValidKickWebhook')

export { sdk }
export const kind = 'source'
// Made for these cases alone.
export const privateKey = `-----BEGIN PRIVATE KEY-----
MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQDSI0uTUv6rD4Ml
EOQXqGeLIufym3WR+hORwSxtkIM1yUEMqxO9lLFhKx0XDkRSP7wGYLArtVyG0wTx
wTchUjqxoJRpFNMC/NOZPc0B98WgGg92nA7ZPTdihfZ3EZy0fzbZByDNAkKAUXLh
vUb2jv0qtiI20CDu6m+TvK6yTUhmxWlnaYy0BKb+eiKlC/9F9+bPDFaareJTm/pA
9y7g35Wfaauz3/PEXPieMWAgzpiRTFtegZ5sYRwBjDv0Qag30z+GzyoW5uP708Oi
AZm/c5QtPucohX106HUJ1WJPeDeVlAP+VWWIEdiWfdNApv2uZuZwGAKQq0xA4hSK
eUkXQT7hAgMBAAECggEAHOXOrFVjAToyYkQG4fv+NUOZGyNm0SrPSyGCDxUq/hgN
koTqQ41xsTehGf0Txy3NmSDtySz5Ku9VBDv6bWImASxgjGzZMdV78dxuV2Fv83rx
+nEul5BUD//1K12oK6g87i6NQ7QWWhgZUNLbMefrB9chMGGBzek+a9YsPgfjt4IZ
bZSnPvEoPEVoU9LOVtMiXR//CeTJ5GIaOLg//ijdOPedyUB8ixfIEfEpoS9fpN3d
mnhYkVWR2QcKe1TJ6V9IhaIiRrZvhF8ZfFfhsBh7F7SX1av6XGqaEmuO0sajQft/
5VGYSHHlG2Vqopt38aLkdI7ztrxOd1NGISudzWJUMwKBgQD5WAAqtCYGnTn4xlWU
uDc4l5YyPk5gy/zNjSoo+uTvZ9CPpKMPQQFy8PhsJVRskcC8uIY6aX2h9zxuTOfT
Qd6xx63lO3cCPUE5aB+xaerTGFk2ILVpjcI+Oqq+Qn2FDXuRGy/lx+VUibNKsJJX
N+LjGIagn6UZKuVkD4bvozz7bwKBgQDXv10ztfoPh9lVrZi21OTKyOKEQlvnlYMQ
nWeDAr5DfHh3DwRfXMnbU1erx/qYf5vpLGycpU3u93fapxLIulPiRJ1jHOPsg/Dy
r+UPQ4jrV8zHeiXx8qA+BgNOpEBNiMUZCIN1uPt8wX0kpcd1Th09vn77jOVi1LhD
Ve2QX82CrwKBgFuO7djAd+ob18q7AXfvwQ890oA2ks9GeFj+SgnsPx6N726flOSo
CSEszPvhJUQMrUpfM6LFU8WipIUYJlRTrrN3UCqJkGS5G3c5/dFGxFypZzDSB+tv
i3EQV9wvTCoMTmB1LDxjD5ngSn7VoZb3RZAAVIcsuBIqxzrb3L+oIF9vAoGABmLv
y1wTruoCkPq2jpL2wtn3eprMRaqzWoaOTd6C61R/7GZRZtFEWG27Jqag0GrWnqxl
+q0aBXzl218euzpoyUXmssxkItg1BboXOcByCSVsNmtzPBpGjA95gZZzINhvnTIX
UiDLsQG5RqBxqxNI4k8FS0T8dVR+r9+XTLLJTpkCgYB4+sYIkLr/HJDWMK0prYQY
Ef4e6XLycwwCIyrXuMD3VmOmz4cxIGRQlL5dv1eQAkTYpjv2q5P+t1WJYc09Q0kw
UdwaqJfcJyqozaUxKT3q3N/p8HAuCDYS2OtRD3fVux6khc6nZ4unMxVpKBQyY6+c
hQbl9CRQP9PmDRA2A/b2pg==
-----END PRIVATE KEY-----
`
export const otherPrivateKey = `-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDh81Rbukg8V6Ah
FP920LEcS1WLFmrkGdHnzKaXUrXutObGZT7nq13ZQmpZMnot9aGcACXRJxt+7IR+
EbIoFlu1O7xfI+V65wIg9XuZbtmyUwSfW4ZyvcNms6TXupz4o4mvy8HI3Sjrpz6B
4BOVPkdXTdp50H+h5DkQPa//Q07TOmH7TOEjwJN6yVP2FtkwR/jDgY7YTYEiHy+b
ReNQ58sTTKana2y0Hh9rsONi4hkH6G9qhK/K47YOofgiy6r6u/NfIHdzmixQNz7a
rYnwBvLjWsiN5vhnr+S3kzARfJ8NS4eaZhB3hKxOBTptiVHkWAhuYzxGUP89ZoV1
YoBHgfj3AgMBAAECggEAJWtcZaKIkwG6AbCODDnMkxCA1rt8MVF7W0Wfs0Dd423v
KB0dWVWegbwHi8UZyeG7hW/a03QEEDWQTaaVmCD3yCBf9mul9gAq8JVnBkZ+5BLu
mYuZTQhTQ39txdJga6b9xvDaI29I9xnn9q9K3vUE8Jbynyjh8kgvERr+OiqF8+IQ
LDJmG5kOZ+eKQEHVcMvO71je423Wmjp9WN7fnqBmXtvvmiUzHFy6/6JX9Mq5uyNl
gzpl1OhevI7CLwSegETcN+JwRdhCnsbqvXjemtigVB2zUsQdF+7jmRK+lRAIJnId
hVboWWAE0ptu1ZPUo38BKxieLfHzdxEHTbAolz8lxQKBgQDzgTbMk3jhlwh95z7V
Y2HTOvTCYIRjGwQy2F7yucms9m2bSJB15zli/tOQraF2OKFvVmUROnv1O3GR37oQ
gjF3OFLdXornSvH1D7koMTap5yQqnE6QakWrAvqDV4yL7RExQaISAG+JgoxrUvPq
670zJOHdfhvn4lCS4oaissIPrQKBgQDti4PnxbBKbUQU4ulJnUt7a9lwS5ES/M69
tIVNXoVAUcT1UJ0Q693mLVxTC/0nRtYNEnBtM40EXh2kaCbm4hVpcQDyX3y5qyT2
ST90/LY9t34KFxyaImxS67LyYgPb697eRGBe1ZwqgTblmv+VzpHUtPXY8t95GW6N
/oKbNblvswKBgBPID3eXE17gMiRoQMZ9CFlslK2lwZt7el/XC/+T8DpI2qaewn2R
hyvvn6hFMrSz7Qlqb1Ny+Nb3OUasciUdLn+M585r+8TGZdmOqXAGb3Zl/J4pjIhW
2coGt+srlZNYcukZd90Wg/kbzeR6HK6c8AXTnTWtJP81d243UNCuzO0RAoGACvI+
5dNKSGO4m23JakcBT3Ks1mvlB4b2z+8dpW8RnOEnvlY0pq73zr+QXZNT2xd8jaWn
4KBbgzQDEaxq/oC0k+NNM94KlVO5pE/DyNRMYZOvDy/5dXDYpQmPeXPi0aOQ5ZUp
C7W0OJEzwmjeFj0qoy6jlZe7jI0LdyefRR+4p9kCgYEA6NKdb4q50Ukd1RvZQhXj
ZtFdBVmVhHUnJ7jyXJGxLVT1aUy+tJhVQ7e372lnaOS3kOREJAETUWFW1+vmqwQt
0rBhesMAALJjrAuvj+CMreY/lHosmXO0OpOunrZsWbaeNNcluhN1iZigF8GQ9Bol
RMLA5XYojwyHPvtBVHYvA18=
-----END PRIVATE KEY-----
`
export const publicKey = createPublicKey(createPrivateKey(privateKey)).export({ type: 'spki', format: 'pem' })
export const tolerance = null
export const signature = { header: 'Kick-Event-Signature', encoding: 'base64' }
export const timestamp = { header: 'Kick-Event-Message-Timestamp', unit: 'rfc3339' }
export const signedHeaders = ['Kick-Event-Message-Id']
export const leftOut = { 'empty body': 'the library wants a body' }

export const sample = ({ id, now }) => JSON.stringify({ message_id: id, broadcaster: { user_id: 1 }, sender: { user_id: 2 }, content: 'hello', created_at: new Date(now * 1000).toISOString() })

export function sign({ body, now, id, privateKey }) {
  const at = new Date(now * 1000).toISOString()
  const signed = Buffer.concat([Buffer.from(`${id}.${at}.`), body])
  return { 'Kick-Event-Message-Id': id, 'Kick-Event-Message-Timestamp': at, 'Kick-Event-Type': 'chat.message.sent', 'Kick-Event-Version': '1', 'Kick-Event-Signature': rsa('sha256', signed, privateKey).toString('base64') }
}

export function verify(request, { publicKey }) {
  return validate(request, { publicKey })
}
