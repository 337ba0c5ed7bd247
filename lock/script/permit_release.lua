-- Gives permits back.
--
-- KEYS[1] the counter of free permits
-- KEYS[2] permits that are taken {id: deadline in epoch ms}
-- ARGV[1] the permits: 12 bytes and their number, see permit_take
-- ARGV[2] channel on which free permits are published
-- ARGV[3] command that publishes there; publish if it is not given
--
-- Answers 1 all were there and are free now; -1 some were not, the rest is free.
-- Memory that is out refuses none of it: the first write frees some.
-- If the message was refused, the answer is {that number, the error}.
local value = redis.call('get', KEYS[1]) or '0'
local free = string.match(value, '^%-?%d+$') and tonumber(value)
if not free or string.format('%.0f', free + 0) ~= value then -- INCRBY comes after the first change
  return redis.error_reply('ERR wheellock: ' .. KEYS[1] .. ' is no counter')
end
local members = numbered(ARGV[1])
local back, refused = remove(KEYS[2], members)
if refused then
  if string.find(refused.err, 'WRONGTYPE', 1, true) then
    return -1 -- a key of another type has no permits any more
  end
  return refused
end
if back > 0 then
  free = redis.call('incrby', KEYS[1], string.format('%.0f', back))
  local told = redis.pcall(ARGV[3] or 'publish', ARGV[2], string.format('%.0f', free))
  if type(told) == 'table' then
    return {back == #members and 1 or -1, told.err}
  end
end
if back == #members then
  return 1
end
return -1
