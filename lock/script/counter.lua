-- The counter of a semaphore.
--
-- counter returns the number at a key, 0 if there is none, and the key's text, false if there
-- is none; or nil and the error with which the key is refused. INCRBY takes whatever is a
-- counter here, so it does not fail after something else was changed.
local function counter(key)
  local text = redis.call('get', key)
  local value = text or '0'
  local n = string.match(value, '^%-?%d+$') and tonumber(value)
  if not n or value == '-0' or string.format('%.0f', n) ~= value then
    return nil, redis.error_reply('WRONGTYPE wheellock: ' .. key .. ' is no counter')
  end
  return n, text
end
