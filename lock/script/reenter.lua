-- Sets the count of a hold that must still be there.
--
-- KEYS[1] the lock's hash
-- ARGV[1] field of the hold
-- ARGV[2] its new count; it is set and not added, because the request may arrive twice
-- ARGV[3] lease in ms, at least 1; a key without TTL stays so until its next renewal
--
-- Answers 1 done, 0 the hold is gone.
local lock, field, count = KEYS[1], ARGV[1], ARGV[2]
local lease = tonumber(ARGV[3])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: reenter needs a lease of at least 1 ms')
end
local ended, unsure = gone(lock, field)
if ended then
  return unsure or 0
end
redis.call('hdel', lock, '') -- after a first write, full memory refuses nothing more
-- The count is set last: a command that fails after it would leave a count that no caller knows of.
local left = redis.call('pttl', lock)
if left >= 0 and left < lease then
  redis.call('pexpire', lock, lease)
end
redis.call('hset', lock, field, count)
return 1
