-- Runs one command if a hold still has its lock.
--
-- KEYS[1]   the lock's hash
-- KEYS[2+]  the command's keys
-- ARGV[1]   field of the hold
-- ARGV[2]   the command
-- ARGV[3+]  its arguments after the keys
--
-- Answers {1, the command's answer}, {0} the hold is gone and nothing was run.
local lock, field, command = KEYS[1], ARGV[1], ARGV[2]
local ended, unsure = gone(lock, field)
if ended then
  return unsure or {0}
end
local call = {command}
for i = 2, #KEYS do
  call[#call + 1] = KEYS[i]
end
for i = 3, #ARGV do
  call[#call + 1] = ARGV[i]
end
return {1, redis.call(unpack(call))}
