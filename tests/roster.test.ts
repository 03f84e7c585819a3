import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Roster } from '../src/roster.ts'

interface Guest {
  readonly name: number
  hallPlace: number
  tablePlace: number
}

const guestsMax = 12
const guests = (): readonly Guest[] =>
  Array.from({ length: guestsMax }, (_, name) => ({ name, hallPlace: -1, tablePlace: -1 }))

const move = fc.record({
  what: fc.constantFrom('add', 'delete'),
  where: fc.constantFrom('hall', 'table'),
  who: fc.nat({ max: guestsMax - 1 }),
})

test('a roster holds what a set would hold, also of items that stand in two', () => {
  fc.assert(
    fc.property(fc.array(move, { maxLength: 200 }), (moves) => {
      const all = guests()
      const rosters = {
        hall: new Roster<'hallPlace', Guest>('hallPlace'),
        table: new Roster<'tablePlace', Guest>('tablePlace'),
      }
      const sets = { hall: new Set<Guest>(), table: new Set<Guest>() }
      for (const { what, where, who } of moves) {
        const guest = all[who] as Guest
        rosters[where][what](guest)
        sets[where][what](guest)
        expect(rosters[where].size).toBe(sets[where].size)
        expect(all.map((one) => rosters[where].has(one as Guest))).toEqual(all.map((one) => sets[where].has(one)))
      }
      for (const where of ['hall', 'table'] as const) expect(new Set(rosters[where])).toEqual(sets[where])
    }),
  )
})

test('a walk ends, visits each that stays, and none that has left, whoever comes and leaves meanwhile', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: guestsMax - 1 }),
      fc.array(fc.uniqueArray(fc.nat({ max: guestsMax - 1 })), { minLength: guestsMax, maxLength: guestsMax }),
      (count, leavesAtVisit) => {
        const all = guests()
        const roster = new Roster<'hallPlace', Guest>('hallPlace')
        for (const guest of all.slice(0, count)) roster.add(guest)
        const late = all[count] as Guest
        const visited: Guest[] = []
        const left = new Set<Guest>()
        for (const guest of roster) {
          expect(roster.has(guest)).toBe(true)
          for (const who of leavesAtVisit[visited.length] ?? []) {
            const gone = all[who] as Guest
            if (gone === late) continue
            roster.delete(gone)
            left.add(gone)
          }
          visited.push(guest)
          roster.add(late)
        }
        const stayed = all.slice(0, count).filter((guest) => !left.has(guest))
        expect(stayed.filter((guest) => !visited.includes(guest))).toEqual([])
      },
    ),
  )
})

test('who stands nowhere cannot be taken away, and not by the place of another', () => {
  const [first, second, stranger] = guests() as [Guest, Guest, Guest]
  const roster = new Roster<'hallPlace', Guest>('hallPlace')
  roster.add(first)
  roster.add(second)
  roster.delete(first)
  roster.delete(first)
  stranger.hallPlace = 0
  roster.delete(stranger)
  expect([...roster]).toEqual([second])
  expect([first.hallPlace, second.hallPlace]).toEqual([-1, 0])
})
