-- Reads a semaphore whose permits expire.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] permits that are taken {id: deadline in epoch ms}
-- ARGV[1] the client's clock in epoch ms: permits with a deadline up to it are free
--
-- Answers {exists, free, taken}.
local free, text = counter(KEYS[1])
if not free then
  return text
end
local expired = redis.call('zcount', KEYS[2], '-inf', ARGV[1])
return {text and 1 or 0, free + expired, redis.call('zcard', KEYS[2]) - expired}
