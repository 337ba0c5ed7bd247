-- Runs one command if a hold still has its lock.
--
-- KEYS[1]   the lock's hash
-- KEYS[2]   the timeout of a read hold; for another hold the lock's hash again
-- KEYS[3+]  the command's keys
-- ARGV[1]   field of the hold
-- ARGV[2]   the command
-- ARGV[3+]  its arguments after the keys
--
-- Answers {1, the command's answer}, {0} the hold is gone and nothing was run.
local lock, timeoutKey, field, command = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local ended, unsure = gone(lock, field)
if not ended and timeoutKey ~= lock and redis.call('exists', timeoutKey) == 0 then
  redis.call('del', timeoutKey) -- a replica refuses this with READONLY
  ended = true
end
if ended then
  return unsure or {0}
end
-- errorOfReplica returns the error of a replica. A former master may have the hold for long after the new one has given the
-- lock to another, and it still carries out commands that do not write.
local function errorOfReplica()
  local answer = redis.pcall('hdel', lock, '')
  return type(answer) == 'table' and string.find(answer.err, 'READONLY', 1, true) and answer
end
-- A message is sent only after the question. For another command the question comes after it, because
-- after a first write full memory refuses nothing.
local isMessage = string.find(string.lower(command), '^s?publish$')
local refused = isMessage and errorOfReplica()
if refused then
  return refused
end
local call = {command}
for i = 3, #KEYS do
  call[#call + 1] = KEYS[i]
end
for i = 3, #ARGV do
  call[#call + 1] = ARGV[i]
end
local answer = redis.call(unpack(call))
refused = not isMessage and errorOfReplica()
if refused then
  return refused
end
return {1, answer}
