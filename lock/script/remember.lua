-- The result of a request, and what it changes: both, or neither.
--
-- KEYS[2]  the request's result, used by no other request
local resultKey = KEYS[2]
-- remember writes the result, which is kept for so many ms, and carries a command out. It
-- returns what the command answers; or nil and the error with which it was refused, and then
-- there is no result. The result comes first: a change whose result may not be written would
-- be made again when the request arrives again.
local function remember(result, ms, ...)
  redis.call('set', resultKey, result, 'px', ms)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    redis.call('del', resultKey)
    return nil, answer
  end
  return answer
end
