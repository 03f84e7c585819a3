import { wishModel } from './model-wish.ts'

export const loadModel = wishModel({
  wish: 'load',
  summary: 'Bring a model into the memory of a node, where its server can be told (§30)',
  about: 'Bring a model into the memory of a node',
  prints: '{NODE} loads {MODEL}.',
  form: {
    when: { loaded: ['false'] },
    verb: 'Load',
    title: 'Load {model} on {name}',
    about: 'The node brings the model into its memory, so that its first request need not wait for that.',
    done: '{name} is told to load {model}.',
    undo: 'node.model.unload',
  },
})
