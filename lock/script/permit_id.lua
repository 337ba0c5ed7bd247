-- Permits by the ids that users have.
--
-- known returns the member of the permit with this id, and its deadline as text, false if the
-- permit is not taken. An id has 32 lower-case hexadecimal digits. The member is the 16 bytes
-- that they encode or, from an older version, the digits themselves.
local function known(key, id)
  local member = string.gsub(id, '%x%x', function(digits)
    return string.char(tonumber(digits, 16))
  end)
  local deadline = redis.call('zscore', key, member)
  if deadline then
    return member, deadline
  end
  return id, redis.call('zscore', key, id)
end
