import { expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { withoutNewerMembers } from '../../../src/protocol/wire/newer-members.ts'
import { literals, nullable, strict } from '../../../src/protocol/wire/shapes.ts'

const Key = Type.Object({ id: Type.String() }, strict)
const Item = Type.Object(
  {
    name: Type.String(),
    kind: literals(['a', 'b']),
    mood: Type.Optional(literals(['well'])),
    at: nullable(Type.Integer()),
  },
  strict,
)
const Message = Type.Object({ items: Type.Array(Item), keys: Type.Array(Key), note: Type.Optional(Item) }, strict)
const read = (value: unknown) => withoutNewerMembers(Message, value, new Set([Key]))
const item = { name: 'n', kind: 'a', at: null }

test('members that the schema does not name are left out, at every depth', () => {
  expect(read({ items: [{ ...item, more: { than: 1 } }], keys: [], fresh: true })).toEqual({ items: [item], keys: [] })
  expect(read(JSON.parse('{"__proto__":{"items":[]},"keys":[]}'))).toEqual({ keys: [] })
})

test('a word that no list has takes its member along, or the element that cannot be without it', () => {
  expect(read({ items: [{ ...item, mood: 'odd' }], keys: [] })).toEqual({ items: [item], keys: [] })
  const odd = { ...item, kind: 'c' }
  expect(read({ items: [odd, item], keys: [], note: odd })).toEqual({ items: [item], keys: [] })
})

test('what is known and wrong stays, to be refused by its check', () => {
  const wrong = { items: [{ ...item, at: 'noon' }], keys: [] }
  expect(read(wrong)).toEqual(wrong)
  expect(read({ items: 'none', keys: [] })).toEqual({ items: 'none', keys: [] })
})

test('what is signed as a whole is taken as it is, or left out', () => {
  expect(read({ items: [], keys: [{ id: 'k' }, { id: 'l', more: 1 }] })).toEqual({ items: [], keys: [{ id: 'k' }] })
})
