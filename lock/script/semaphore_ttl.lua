-- Reads how long a semaphore still lives.
--
-- KEYS[1] the counter of free permits
--
-- Answers what is left in ms; -1 it does not end, -2 there is none.
local value = redis.call('get', KEYS[1])
if value and not string.match(value, '^%-?%d+$') then
  return redis.error_reply('ERR wheellock: ' .. KEYS[1] .. ' is no counter')
end
return redis.call('pttl', KEYS[1])
