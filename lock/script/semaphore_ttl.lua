-- Reads the TTL of a semaphore.
--
-- KEYS[1] the counter of free permits
--
-- Answers the TTL in ms; -1 no TTL, -2 there is no semaphore.
local semaphore = KEYS[1]
local n, refused = counter(semaphore)
if not n then
  return refused
end
return redis.call('pttl', semaphore)
