import { expect, test } from 'bun:test'
import { SealedGroups } from '../../../src/actors/money/sealed-groups.ts'

const cut = (groups: SealedGroups, first: number, last: number) =>
  groups.within(first, last).map((group) => `${group.first}–${group.last}`)

test('§14: what is sent again is cut as it was, and what came since stands behind it', () => {
  const groups = new SealedGroups(250)
  expect(cut(groups, 0, 9)).toEqual(['0–9'])
  expect(cut(groups, 0, 600)).toEqual(['0–9', '10–259', '260–509', '510–600'])
  expect(cut(groups, 0, 601)).toEqual(['0–9', '10–259', '260–509', '510–600', '601–601'])
  groups.leave(259)
  expect(cut(groups, 260, 700)).toEqual(['260–509', '510–600', '601–601', '602–700'])
})

test('§14: lines that are sent one by one are groups of one, and those behind them are cut anew', () => {
  const groups = new SealedGroups(250)
  groups.within(0, 249)
  expect(cut(groups, 0, 0)).toEqual(['0–0'])
  groups.leave(0)
  expect(cut(groups, 1, 1)).toEqual(['1–1'])
  groups.leave(1)
  expect(cut(groups, 2, 300)).toEqual(['2–249', '250–300'])
})
