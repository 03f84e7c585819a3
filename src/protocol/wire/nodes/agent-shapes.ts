import { formed } from '../shapes.ts'

export const keyText = formed('^[A-Za-z0-9_-]{43}$', '32 bytes as base64url, which is 43 characters', {
  description: '32 bytes, base64url',
})
export const signature = formed(
  '^[A-Za-z0-9_-]{86}={0,2}$',
  'an Ed25519 signature as base64url, which is 86 characters',
  {
    description: 'Ed25519, base64url',
  },
)
export const instant = formed(
  '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$',
  'a time in UTC with milliseconds, such as 2026-11-20T16:00:00.000Z',
)
