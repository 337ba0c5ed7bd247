-- Reads the counter of a semaphore or a latch.
--
-- KEYS[1] the counter
--
-- Answers its text, at most 64 bytes of it; nil if there is none.
local counter = KEYS[1]
local text = redis.call('get', counter)
return text and string.sub(text, 1, 64)
