-- Publishes a message at the end of a script.
--
-- tell publishes a message and returns the answer of the script: the number, or {the number, the
-- error} if the message was refused.
local function tell(answer, command, channel, message)
  local told = redis.pcall(command or 'publish', channel, message)
  if type(told) == 'table' then
    return {answer, told.err}
  end
  return answer
end
