-- Sets the count of a hold that must still be there.
--
-- KEYS[1] the lock's hash
-- ARGV[1] field of the hold
-- ARGV[2] its new count; set, not added, so that the request may arrive twice
-- ARGV[3] lease in ms, at least 1
--
-- Answers 1 done, 0 the hold is gone.
local lease = tonumber(ARGV[3])
if not lease or lease < 1 then
  return redis.error_reply('ERR wheellock: reenter needs a lease of at least 1 ms')
end
local ended, unsure = gone(KEYS[1], ARGV[1])
if ended then
  return unsure or 0
end
redis.call('hdel', KEYS[1], '') -- a write, so that memory that is out does not refuse what follows
-- The count comes last: one that is set, and refused to the caller, is never taken back.
if redis.call('pttl', KEYS[1]) < lease then
  redis.call('pexpire', KEYS[1], lease)
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
return 1
