-- Renews many read holds and names those that are gone.
--
-- KEYS[i]    a lock's hash
-- ARGV[1]    lease in ms, at least 1
-- ARGV[2]    what the fields of all these holds begin with
-- ARGV[i+2]  the rest of the field of the hold at KEYS[i]
--
-- Answers the indexes i of the holds that are gone; the others now have a TTL of
-- at least the lease, and so has their timeout, whose name is made here as
-- Redisson makes it: it shares the lock's slot. A key of the wrong type is a hold
-- that is gone. Only commands that are not refused when memory is out.
local lease = tonumber(ARGV[1])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_renew needs a lease of at least 1 ms')
end
local gone = {}
for i = 1, #KEYS do
  local key, field = KEYS[i], ARGV[2] .. ARGV[i + 2]
  local prefix = key
  if not string.find(key, '{', 1, true) then
    prefix = '{' .. key .. '}'
  end
  local timeout = prefix .. ':' .. field .. ':rwlock_timeout:1'
  local left = redis.call('pttl', timeout)
  if left == -2 or redis.pcall('hexists', key, field) ~= 1 then
    -- A replica says READONLY to this: it may not have got the hold yet.
    local nothing = left == -2 and redis.pcall('del', timeout) or redis.pcall('hdel', key, field)
    if type(nothing) == 'table' and string.find(nothing.err, 'READONLY', 1, true) then
      return nothing
    end
    gone[#gone + 1] = i
  else
    if left < lease then
      redis.call('pexpire', timeout, ARGV[1])
    end
    if redis.call('pttl', key) < lease then
      redis.call('pexpire', key, ARGV[1])
    end
  end
end
return gone
