-- Reads how long a semaphore still lives.
--
-- KEYS[1] the counter of free permits
--
-- Answers what is left in ms; -1 it does not end, -2 there is none.
local semaphore = KEYS[1]
local n, refused = counter(semaphore)
if not n then
  return refused
end
return redis.call('pttl', semaphore)
