-- Verifies a delivery of GitHub's and takes its id in Redis, for good: one SET NX EX. Nothing gives an id back when the consumer
-- fails, so an event can be lost; hookonce does more for each delivery, and is compared with this all the same.
local ffi = require "ffi"
ffi.cdef [[
  const void *EVP_sha256(void);
  unsigned char *HMAC(const void *hash, const void *key, int key_bytes, const char *text, size_t bytes,
                      unsigned char *mac, unsigned int *mac_bytes);
]]

local openssl = ffi.load("libcrypto.so.3")
local sha256, mac = openssl.EVP_sha256(), ffi.new("unsigned char[32]")
local secret, redis_port = os.getenv("WEBHOOK_SECRET"), tonumber(os.getenv("REDIS_PORT"))
local bxor, bor, rshift, band = bit.bxor, bit.bor, bit.rshift, bit.band
local RETENTION = "259200"

-- The digit of each half byte.
local digit = {}
for value = 0, 15 do digit[value] = ("0123456789abcdef"):byte(value + 1) end

-- Compares every byte, so that its time does not tell how much of a forgery was right.
local function is_signed(body, given)
  if #given ~= 71 or given:sub(1, 7) ~= "sha256=" then return false end
  openssl.HMAC(sha256, secret, #secret, body, #body, mac, nil)
  local differs = 0
  for i = 0, 31 do
    local high, low = given:byte(8 + 2 * i, 9 + 2 * i)
    differs = bor(differs, bxor(high, digit[rshift(mac[i], 4)]), bxor(low, digit[band(mac[i], 15)]))
  end
  return differs == 0
end

-- A body that was too long for its buffer lies in a file.
local function request_body()
  ngx.req.read_body()
  local body = ngx.req.get_body_data()
  if body then return body end
  local path = ngx.req.get_body_file()
  if not path then return "" end
  local file = assert(io.open(path, "rb"))
  body = file:read("*a")
  file:close()
  return body
end

-- Whether the id is new, or nil where Redis cannot be asked.
local function take(key)
  local redis = ngx.socket.tcp()
  if not redis:connect("127.0.0.1", redis_port) then return nil end
  local sent = redis:send { "*6\r\n$3\r\nSET\r\n$", #key, "\r\n", key,
    "\r\n$1\r\n1\r\n$2\r\nEX\r\n$", #RETENTION, "\r\n", RETENTION, "\r\n$2\r\nNX\r\n" }
  local answer = sent and redis:receive()
  if not answer then return nil end
  redis:setkeepalive(60000, 512)
  return answer == "+OK"
end

local function access()
  if not is_signed(request_body(), ngx.var.http_x_hub_signature_256 or "") then return ngx.exit(401) end
  local is_new = take("nginx-lua:" .. (ngx.var.http_x_github_delivery or ""))
  if is_new == nil then return ngx.exit(503) end
  if not is_new then
    ngx.header.content_type = "application/json"
    ngx.print('{"status":"duplicate"}')
    return ngx.exit(200)
  end
end

return { access = access }
