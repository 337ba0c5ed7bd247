-- Moves the deadline of a hold of permits, which must still be there, never to
-- an earlier time.
--
-- KEYS[1] the semaphore's permits that are taken {id: deadline in epoch ms}
-- ARGV[1] the permits: 12 bytes and their number, see permit_take
-- ARGV[2] new deadline in epoch ms, by the client's clock
-- ARGV[3] the client's clock in epoch ms. The server's stands in its place where it is known
--
-- Answers 1 done, 0 a permit is gone.
local bytes, n = string.sub(ARGV[1], 1, 12), tonumber(string.sub(ARGV[1], 13))
local ids, scores = {}, {}
local deadline = ARGV[2] + (clock and clock - ARGV[3] or 0)
for i = 1, n do
  ids[i] = bytes .. string.char(math.floor(i / 16777216) % 256, math.floor(i / 65536) % 256, math.floor(i / 256) % 256, i % 256)
  local score = redis.pcall('zscore', KEYS[1], ids[i])
  if type(score) == 'table' and score.err then
    if string.find(score.err, 'WRONGTYPE', 1, true) then
      return 0 -- a key of another type has no permits any more
    end
    return score
  end
  scores[i] = tonumber(score or '')
  if not scores[i] then
    return 0
  end
end
for i = 1, n do
  if scores[i] < deadline then
    redis.call('zadd', KEYS[1], 'xx', string.format('%.0f', deadline), ids[i])
  end
end
return 1
