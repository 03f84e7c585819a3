// Symptom: a token could be named "Ada" with a letter that is not seen, or with a Cyrillic "А", beside the token of Ada; a
// person at a provider could call herself what a token is called, or by a hash prefix. The audit showed the two as one.
// Cause: names were compared in any case of letters alone, and those of a provider with nothing.
// Fix: names that look alike are refused; a name of a provider that looks like a token's says where it comes from.
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import type { AdminCreated } from '../../src/protocol/wire/admin/operators.ts'
import { newToken } from '../../src/secrets.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const robot = newToken('viewer')

const create = async (name: string) => {
  const answer = await gateway.ask('POST', '/v1/admin/admins', { as: 'admin', json: { name, role: 'viewer' } })
  const body = (await json(answer)) as unknown as AdminCreated & { readonly code?: string }
  return { status: answer.status, code: body.code, body }
}
const digest = createHash('sha256').update(robot).digest('hex')
const gateway = await fixture(startTestGateway({ SVC_VIEWER_TOKENS: robot, SVC_TOKEN_NAMES: `Robot=sha256:${digest}` }))
expect((await create('Ada Lovelace')).status).toBe(201)

test('a name that looks like the name of a token that works is refused, and its own name is free again afterwards', async () => {
  const lookAlikes = [
    'ADA LOVELACE',
    'Аdа Lоvеlасе',
    'Ada Lovelace', // no-break space
    'Ａｄａ Ｌｏｖｅｌａｃｅ',
    'Ada  Lovelace',
    'Ada L0ve1ace',
    'ROBOT',
    'Rоbоt',
  ]
  for (const name of lookAlikes) expect([name, (await create(name)).code]).toEqual([name, 'admin_name_taken'])
  for (const name of ['Ada Byron', 'Ädä Lovelace', 'Ада Лавлейс', '愛達']) {
    expect([name, (await create(name)).status]).toEqual([name, 201])
  }
})

test('a name with what is not seen, or in the form of a hash prefix, is refused', async () => {
  const bad = [
    'Ada\u200b Byron2',
    '\u202eadA',
    'Ada\u00ad',
    'x\u2060y',
    '\u3164',
    'a\u{e0041}b',
    'a\ufe0fb',
    '0123456789ab',
  ]
  for (const name of bad) {
    const { status, code } = await create(name)
    expect([name, status, code]).toEqual([name, 400, 'invalid_request'])
  }
})

test('a person at a provider who is called as a token is, or as a hash prefix, is shown with where she comes from', async () => {
  const nameOf = async (name: string) =>
    (
      await gateway.gateway.sessions.begin({
        name,
        role: 'viewer',
        method: 'oidc',
        adminId: null,
        sourceHash: null,
        actorHash: createHash('sha256').update(name).digest('hex').slice(0, 12),
        signInHash: null,
      })
    ).session.name
  expect(await nameOf('ada lоvelace')).toBe('ada lоvelace (OpenID Connect)')
  expect(await nameOf('robot')).toBe('robot (OpenID Connect)')
  expect(await nameOf('0123456789ab')).toBe('0123456789ab (OpenID Connect)')
  expect(await nameOf('grace@example.test')).toBe('grace@example.test')
})
