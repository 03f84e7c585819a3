import { tellNode } from './node.ts'

export const drainNode = tellNode({
  command: 'drain',
  role: 'operator',
  summary: 'The node gets no new work. Running requests may finish',
  about: 'Give a node no new work. Running requests may finish',
  asks: null,
  form: {
    on: 'node',
    when: { admin_state: ['active'] },
    verb: 'Drain',
    title: 'Drain {name}',
    about: 'The node gets no new work. Running requests may finish. Resume gives it work again.',
    done: '{name} gets no new work.',
    undo: 'node.resume',
  },
})
