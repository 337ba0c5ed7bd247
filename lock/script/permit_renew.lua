-- Renews many holds of permits and names those that are gone.
--
-- KEYS[i]    a semaphore's permits that are taken {id: deadline in epoch ms}
-- ARGV[1]    new deadline in epoch ms by the client's clock, at least 1
-- ARGV[2]    the client's clock in epoch ms. The server's stands in its place where it
--            is known
-- ARGV[i+2]  permits of the hold at KEYS[i]: 12 bytes and their number, see permit_take
--
-- Answers the indexes i of the holds of which a permit is gone, and {i, the error}
-- of those that Redis refuses to renew; those of the
-- others have a deadline of at least the new one. A key of the wrong type is a
-- hold that is gone.
local deadline, clientNow = tonumber(ARGV[1]), ARGV[2]
if not deadline or deadline < 1 or not tonumber(clientNow) then
  return redis.error_reply('ERR wheellock: permit_renew needs a deadline and a time')
end
if clock then
  deadline = deadline + clock - clientNow
end
local text = string.format('%.0f', deadline)
local gone = {}
for k = 1, #KEYS do
  local key, members = KEYS[k], numbered(ARGV[k + 2])
  local all, refusal = deadlines(key, members)
  local there, late = all ~= nil, {}
  for i = 1, all and #members or 0 do
    if not all[i] then
      there = false
      break
    elseif tonumber(all[i]) < deadline then
      late[#late + 1] = members[i]
    end
  end
  if there then
    -- Memory that is out refuses ZADD, but only as a script's first write.
    redis.pcall('zrem', key, '')
    local set = put(key, text, late, 'xx')
    if set then
      if string.find(set.err, 'READONLY', 1, true) then
        return set
      end
      gone[#gone + 1] = {k, set.err}
    end
  elseif refusal and not string.find(refusal.err, 'WRONGTYPE', 1, true) then
    gone[#gone + 1] = {k, refusal.err}
  else
    -- A replica says READONLY to this: it may not have got the permits yet.
    local nothing = redis.pcall('zrem', key, '')
    if type(nothing) == 'table' and string.find(nothing.err, 'READONLY', 1, true) then
      return nothing
    end
    gone[#gone + 1] = k
  end
end
return gone
