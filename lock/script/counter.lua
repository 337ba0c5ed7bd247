-- The counter of a semaphore.
--
-- counter returns the number at a key and the key's text: 0 and false if the key is absent. If
-- the key is no counter, it returns nil and an error. Every text that passes is one that INCRBY
-- accepts, so INCRBY does not fail later, after something else was changed.
local function counter(key)
  local text = redis.call('get', key)
  local value = text or '0'
  local n = string.match(value, '^%-?%d+$') and tonumber(value)
  if not n or value == '-0' or string.format('%.0f', n) ~= value then
    return nil, redis.error_reply('WRONGTYPE wheellock: ' .. key .. ' is no counter')
  end
  return n, text
end
