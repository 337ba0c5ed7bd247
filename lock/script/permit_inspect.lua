-- Reads a semaphore whose permits expire.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] the taken permits {id: deadline in epoch ms}
-- ARGV[1] the client's clock in epoch ms: permits with a deadline up to it are free
--
-- Answers {exists, free, taken}.
local semaphore, taken, now = KEYS[1], KEYS[2], ARGV[1]
local free, text = counter(semaphore)
if not free then
  return text
end
local expired = redis.call('zcount', taken, '-inf', now)
return {text and 1 or 0, free + expired, redis.call('zcard', taken) - expired}
