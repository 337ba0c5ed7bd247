-- Reads the counter of a semaphore or a latch.
--
-- KEYS[1] the counter
--
-- Answers the first 64 bytes of its text; nil if there is no counter.
local counter = KEYS[1]
local text = redis.call('get', counter)
return text and string.sub(text, 1, 64)
