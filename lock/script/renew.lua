-- Renews many holds of one client and names those that are gone.
--
-- KEYS[i]    a lock's hash
-- ARGV[1]    lease in ms, at least 1; 1 asks without extending
-- ARGV[2]    what the fields of all these holds begin with
-- ARGV[i+2]  the rest of the field of the hold at KEYS[i]
--
-- Answers the indexes i of the holds that are gone; the others now have a TTL of
-- at least the lease. A key of the wrong type is a hold that is gone. Only
-- commands that are not refused when memory is out.
-- Locals, because globals are looked up by name each time: a tenth of the script.
local keys, args, call, pcall = KEYS, ARGV, redis.call, redis.pcall
local lease = tonumber(args[1])
local client = args[2]
if not lease or lease < 1 or #args ~= #keys + 2 then
  return redis.error_reply('ERR wheellock: renew needs a lease of at least 1 ms and a field for each key')
end
local gone = {}
for i = 1, #keys do
  local key = keys[i]
  if pcall('hexists', key, client .. args[i + 2]) ~= 1 then
    gone[#gone + 1] = i
  elseif call('pttl', key) < lease then
    call('pexpire', key, lease)
  end
end
return gone
