-- Reads the counter of a semaphore or a latch.
--
-- KEYS[1] the counter
--
-- Answers its text, nil if there is none.
return redis.call('get', KEYS[1])
