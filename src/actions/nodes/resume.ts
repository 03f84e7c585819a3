import { tellNode } from './node.ts'

export const resumeNode = tellNode({
  command: 'resume',
  role: 'operator',
  summary: 'The node gets new work again',
  about: 'Give a drained node work again',
  asks: null,
  form: {
    on: 'node',
    when: { admin_state: ['draining'] },
    verb: 'Resume',
    title: 'Resume {name}',
    about: 'The node gets new work again.',
    done: '{name} gets work again.',
    undo: 'node.drain',
  },
})
