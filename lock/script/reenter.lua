-- Sets the count of a hold that must still be there.
--
-- KEYS[1] the lock's hash
-- ARGV[1] field of the hold
-- ARGV[2] its new count; set, not added, so that the request may arrive twice
-- ARGV[3] lease in ms, at least 1
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
redis.call('hdel', lock, '') -- a write, so that memory that is out does not refuse what follows
-- The count comes last: one that is set, and refused to the caller, is never taken back.
if redis.call('pttl', lock) < lease then
  redis.call('pexpire', lock, lease)
end
redis.call('hset', lock, field, count)
return 1
