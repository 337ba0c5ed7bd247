-- Renews many holds of permits and names those that are gone.
--
-- KEYS[i]    a semaphore's taken permits {id: deadline in epoch ms}
-- ARGV[1]    new deadline in epoch ms by the client's clock, at least 1
-- ARGV[2]    the client's clock in epoch ms, used if TIME is refused
-- ARGV[i+2]  permits of the hold at KEYS[i]: 12 bytes and their number, see permit_take
--
-- Answers the index i of each hold that has lost a permit, and {i, the error} for each hold that
-- Redis refuses to renew. The permits of all other holds now have at least the new deadline. A
-- key of another type counts as a hold that is gone.
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
    -- Full memory refuses ZADD only as the first write of a script. A replica refuses this too.
    local set = redis.pcall('zrem', key, '')
    set = type(set) == 'table' and set or put(key, text, late, 'xx')
    if set then
      if string.find(set.err, 'READONLY', 1, true) then
        return set
      end
      gone[#gone + 1] = {k, set.err}
    end
  elseif refusal and not string.find(refusal.err, 'WRONGTYPE', 1, true) then
    gone[#gone + 1] = {k, refusal.err}
  else
    -- A replica refuses this with READONLY, because the permits may not have reached it yet.
    local nothing = redis.pcall('zrem', key, '')
    if type(nothing) == 'table' and string.find(nothing.err, 'READONLY', 1, true) then
      return nothing
    end
    if type(nothing) == 'table' and not string.find(nothing.err, 'WRONGTYPE', 1, true) then
      gone[#gone + 1] = {k, nothing.err}
    else
      gone[#gone + 1] = k
    end
  end
end
return gone
