-- Reads the counter of a semaphore or a latch.
--
-- KEYS[1] the counter
--
-- Answers its text, at most 64 bytes of it; nil if there is none.
local text = redis.call('get', KEYS[1])
return text and string.sub(text, 1, 64)
