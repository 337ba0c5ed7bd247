-- Reads how long a key still lives, whatever it is.
--
-- KEYS[1] the key
--
-- Answers the TTL in ms; -1 no TTL, -2 there is no key.
local key = KEYS[1]
return redis.call('pttl', key)
