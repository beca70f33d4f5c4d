-- What wrk sends: deliveries as GitHub makes them, each event with a body of its own and a signature over it.
-- Signing here costs the load, not the proxy. MODE says which events:
--   unique   each a new one
--   dup      one that was answered before wrk began
--   mix      one in twenty was sent, and answered, a thousand deliveries earlier
--   forged   new ones whose signature is wrong
-- ONE_BODY=yes gives all events the same body, as somebody who replays a captured one would.
local ffi = require "ffi"
ffi.cdef [[
  const void *EVP_sha256(void);
  unsigned char *HMAC(const void *hash, const void *key, int key_bytes, const char *text, size_t bytes,
                      unsigned char *mac, unsigned int *mac_bytes);
]]

local function variable(name) return (assert(os.getenv(name), name .. " is not set")) end

local mode, run, secret = variable("MODE"), variable("RUN"), variable("SECRET")
local has_one_body, body_bytes = os.getenv("ONE_BODY") == "yes", tonumber(variable("BODY_BYTES"))
local MIX_EVERY, MIX_BACK = 20, 1000

local openssl = ffi.load("libcrypto.so.3")
local sha256, mac = openssl.EVP_sha256(), ffi.new("unsigned char[32]")
local digits, text = "0123456789abcdef", ffi.new("char[64]")

local function hmac(body)
  openssl.HMAC(sha256, secret, #secret, body, #body, mac, nil)
  for i = 0, 31 do
    local high = bit.rshift(mac[i], 4)
    text[2 * i] = digits:byte(high + 1)
    text[2 * i + 1] = digits:byte(mac[i] - 16 * high + 1)
  end
  return ffi.string(text, 64)
end

-- The same bytes as lab/deliveries.py makes for the event that comes first.
local opening = '{"ref":"refs/heads/main","commits":"'
local function body_of(event)
  if body_bytes == 0 then return "" end
  local ending = '","id":"' .. run .. "-" .. (has_one_body and "first" or event) .. '"}'
  return opening .. string.rep("x", body_bytes - #opening - #ending) .. ending
end

local function event_of(number)
  if mode == "dup" then return "first" end
  if mode == "mix" and number > MIX_BACK and number % MIX_EVERY == 0 then return number - MIX_BACK - 1 end
  return number
end

local function delivery(event)
  local body = body_of(event)
  local signature = mode == "forged" and string.rep("0", 64) or hmac(body)
  return table.concat {
    "POST /github HTTP/1.1\r\nHost: hooks.example\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\n",
    "Content-Type: application/json\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: ", run, "-", event,
    "\r\nX-Hub-Signature-256: sha256=", signature, "\r\nContent-Length: ", #body, "\r\n\r\n", body,
  }
end

-- One thread sends all: another would make the same events.
local number, first = 0, nil
function request()
  number = number + 1
  if mode ~= "dup" then return delivery(event_of(number)) end
  first = first or delivery("first")
  return first
end

function done(summary, latency)
  local errors = summary.errors
  local missing = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('figures {"count": %d, "seconds": %.6f, "refused": %d, "errors": %d, "p50": %.1f, "p99": %.1f}\n',
    summary.requests, summary.duration / 1e6, errors.status, missing, latency:percentile(50), latency:percentile(99)))
end
