-- Changes something and stores the result of the request: both, or neither.
--
-- KEYS[2]  the request's result, used by no other request
local resultKey = KEYS[2]
-- remember stores the result for that many ms, and calls a command. It returns the command's
-- answer. If the command is refused, it deletes the result and returns nil and the error. The
-- result is stored first: without it, a repeated request would make the change a second time.
local function remember(result, ms, ...)
  redis.call('set', resultKey, result, 'px', ms)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    redis.call('del', resultKey)
    return nil, answer
  end
  return answer
end
