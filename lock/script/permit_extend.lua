-- Moves the deadline of a hold of permits, which must still be there, never to
-- an earlier time.
--
-- KEYS[1] the semaphore's taken permits {id: deadline in epoch ms}
-- ARGV[1] the permits: 12 bytes and their number, see permit_take
-- ARGV[2] new deadline in epoch ms, by the client's clock
-- ARGV[3] the client's clock in epoch ms, used if TIME is refused
--
-- Answers 1 done, 0 a permit is gone.
local taken, permits, clientDeadline, clientNow = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local nothing = redis.pcall('zrem', taken, '') -- a replica refuses it; after a first write, full memory refuses nothing more
if type(nothing) == 'table' then
  if string.find(nothing.err, 'WRONGTYPE', 1, true) then
    return 0 -- a key of another type has lost its permits
  end
  return nothing
end
local members = numbered(permits)
local deadline = clientDeadline + (clock and clock - clientNow or 0)
local all, refused = deadlines(taken, members)
if refused then
  return refused
end
local late = {}
for i = 1, #members do
  if not all[i] then
    return 0
  elseif tonumber(all[i]) < deadline then
    late[#late + 1] = members[i]
  end
end
return put(taken, string.format('%.0f', deadline), late, 'xx') or 1
