-- Tries commands for Client.Check, on one key, which it removes.
--
-- KEYS[1]  a scratch key, which nobody else uses; others may follow, which are not touched
-- ARGV[1]  how many ms the scratch key lives if it may not be removed; without it nothing
--          is tried
-- ARGV[2+] the commands: how many words each has, and the words; 0 stands where the scratch
--          key is removed
--
-- Answers what each of these said, the removal too, behind what the SET that begins said.
-- If nothing may be written, or what is written not be removed, the answer ends early.
-- The scratch key is a string. So commands that make something of another type are refused
-- when they are carried out, after the right to them was asked for. SET comes first because
-- it is what a server refuses whose memory is full, before anything else is written.
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
