import { expect, test } from 'bun:test'
import type { AnyStateNode } from 'xstate'
import { createStatecharts } from '../../../src/actors/console/statecharts.ts'
import { eventName } from '../../../src/machines/charts/chart-graph.ts'
import { charts } from '../../../src/machines/charts/registry.ts'

const drawn = await createStatecharts().all()
const pathOf = (node: AnyStateNode) => node.path.join('.')

/** Read from the machine by another way than the picture's. */
function* walk(node: AnyStateNode): Generator<AnyStateNode> {
  yield node
  for (const child of Object.values(node.states)) yield* walk(child)
}
function movesOf(root: AnyStateNode): string[] {
  return [...walk(root)].flatMap((node) => {
    const eventful = [...node.transitions.values()].flat()
    return [...eventful, ...(node.always ?? [])].flatMap(({ eventType, target }) =>
      (target?.map(pathOf) ?? [pathOf(node)]).map((to) => `${pathOf(node)} -${eventName(eventType)}-> ${to}`),
    )
  })
}

/** What stands in the text of the picture. */
function attributesOf(svg: string, name: string): string[] {
  return [...svg.matchAll(new RegExp(` ${name}="([^"]*)"`, 'g'))].map((found) => found[1] ?? '')
}

test.each(charts.map(({ machine }) => [machine.id, machine] as const))(
  '§23: the picture of %s names exactly the states and transitions of its machine',
  (id, machine) => {
    const chart = drawn.find(({ graph }) => graph.id === id)
    if (chart === undefined) throw new Error('not drawn')
    for (const svg of [chart.svg, chart.standaloneSvg]) {
      expect(attributesOf(svg, 'data-state').toSorted()).toEqual([...walk(machine.root)].map(pathOf).toSorted())
      const [sources, events, targets] = ['data-source', 'data-event', 'data-target'].map((name) =>
        attributesOf(svg, name),
      )
      const moves = sources?.map((source, at) => `${source} -${events?.[at]}-> ${targets?.[at]}`)
      expect(moves?.toSorted()).toEqual(movesOf(machine.root).toSorted())
    }
  },
)

test.each(charts.map(({ machine }) => [machine.id, machine] as const))(
  '§23: every condition of %s has a name, and the picture says it',
  (id, machine) => {
    const conditions = [...walk(machine.root)]
      .flatMap((node) => [...[...node.transitions.values()].flat(), ...(node.always ?? [])])
      .flatMap(({ guard }) => (guard === undefined ? [] : [guard as string | { readonly type: unknown }]))
    const names = conditions.map((guard) => (typeof guard === 'string' ? guard : guard.type))
    for (const name of names) {
      expect(typeof name).toBe('string')
      expect(Object.keys(machine.implementations.guards)).toContain(String(name))
    }
    const said = attributesOf(drawn.find(({ graph }) => graph.id === id)?.svg ?? '', 'data-guard')
    const words = said.filter((guard) => guard !== 'else').map((guard) => guard.split(' ')[0])
    expect(words.toSorted()).toEqual(names.map(String).toSorted())
  },
)

test('§23: eventless transitions are drawn with their conditions, finals and initials as such', () => {
  const mixture = drawn.find(({ graph }) => graph.id === 'mixture')
  expect(mixture?.graph.transitions.filter(({ source }) => source === 'quorumCheck')).toEqual([
    { source: 'quorumCheck', target: 'settling', event: 'always', guard: 'quorumMissed', reenter: false },
    { source: 'quorumCheck', target: 'combining', event: 'always', guard: 'else', reenter: false },
  ])
  const finals = mixture?.graph.states.filter(({ kind }) => kind === 'final').map(({ path }) => path)
  expect(finals).toEqual(['succeeded', 'failed', 'cancelled'])
  const initials = mixture?.graph.states.filter(({ initial }) => initial).map(({ path }) => path)
  expect(initials).toEqual(['validating', 'validating.checking', 'combining.choosing'])
})

test('the picture needs nothing from outside: no script, no other address, no style of its own inside the console', () => {
  for (const { svg, standaloneSvg } of drawn) {
    expect(svg).not.toMatch(/<style|style=|<script|href/)
    expect(`${svg}${standaloneSvg}`.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:|url\((?!#)/)
  }
})
