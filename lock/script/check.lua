-- Tries for Client.Check whether commands are permitted, on one key, which it removes.
--
-- KEYS[1]  a scratch key, used by no other client; further keys are not touched
-- ARGV[1]  TTL in ms of the scratch key, in case it cannot be removed; without it nothing is
--          tried
-- ARGV[2+] the commands: for each the number of its words, then the words; 0: remove the
--          scratch key here
--
-- Answers the reply of the SET that comes first, and then the reply of each command and removal.
-- The answer ends early if SET and DEL are both refused.
-- The scratch key is a string. A command for another type therefore changes nothing: Redis
-- checks the user's rights first and then refuses the type. SET comes first because a server
-- with full memory refuses it, before anything else is written.
local scratch, life = KEYS[1], ARGV[1]
if not life then
  return {}
end
local function fill()
  return redis.pcall('set', scratch, '1', 'px', life)
end
local answers = {fill()}
if answers[1].err then
  local removed = redis.pcall('del', scratch)
  if type(removed) == 'table' then
    return {answers[1], removed}
  end
end
local i = 2
while ARGV[i] do
  local words = tonumber(ARGV[i])
  if words > 0 then
    answers[#answers + 1] = redis.pcall(unpack(ARGV, i + 1, i + words))
  else
    local removed = redis.pcall('del', scratch)
    if type(removed) == 'table' then
      fill() -- some command may have taken its TTL
    end
    answers[#answers + 1] = removed
  end
  i = i + words + 1
end
return answers
