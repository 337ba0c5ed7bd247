-- Renews many holds and names those that are gone.
--
-- KEYS[i]    a lock's hash
-- ARGV[1]    lease in ms, at least 1
-- ARGV[i+1]  field of the hold at KEYS[i]
--
-- Answers the indexes i of the holds that are gone; the others now have a TTL of
-- at least the lease. A key of the wrong type is a hold that is gone. Only
-- commands that are not refused when memory is out.
local lease = tonumber(ARGV[1])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: renew needs a lease of at least 1 ms')
end
local gone = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  if redis.pcall('hexists', key, ARGV[i + 1]) ~= 1 then
    gone[#gone + 1] = i
  elseif redis.call('pttl', key) < lease then
    redis.call('pexpire', key, lease)
  end
end
return gone
