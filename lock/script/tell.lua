-- What a script publishes when it is done.
--
-- tell publishes a message and returns the answer of the script, which is that number, or
-- {the number, the error} if the message was refused.
local function tell(answer, command, channel, message)
  local told = redis.pcall(command or 'publish', channel, message)
  if type(told) == 'table' then
    return {answer, told.err}
  end
  return answer
end
