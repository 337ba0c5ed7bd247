-- Sets the count of a read hold that must still be there.
--
-- KEYS[1] the lock's hash
-- KEYS[2] the hold's timeout
-- ARGV[1] field of the hold
-- ARGV[2] its new count; it is set and not added, because the request may arrive twice
-- ARGV[3] lease in ms, at least 1; a key without TTL stays so until its next renewal
--
-- Answers 1 done, 0 the hold is gone.
local lock, timeoutKey = KEYS[1], KEYS[2]
local field, count = ARGV[1], ARGV[2]
local lease = tonumber(ARGV[3])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: rw_read_reenter needs a lease of at least 1 ms')
end
local ended, unsure = gone(lock, field)
if ended then
  return unsure or 0
end
if redis.call('exists', timeoutKey) == 0 then
  redis.call('del', timeoutKey) -- a replica refuses this with READONLY
  return 0
end
redis.call('hdel', lock, '') -- as in reenter
for i = 1, 2 do
  local left = redis.call('pttl', KEYS[i])
  if left >= 0 and left < lease then
    redis.call('pexpire', KEYS[i], lease)
  end
end
redis.call('hset', lock, field, count)
return 1
