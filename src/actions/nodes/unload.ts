import { wishModel } from './model-wish.ts'

export const unloadModel = wishModel({
  wish: 'unload',
  summary: 'Let a model leave the memory of a node when its work is done',
  about: 'Let a model leave the memory of a node when its work is done',
  prints: '{NODE} lets go of {MODEL}.',
  form: {
    // A server that does not say what is in memory cannot be told to change that either.
    when: { loaded: ['true'] },
    verb: 'Unload',
    title: 'Unload {model} on {name}',
    about: 'The model leaves the memory of the node when its work is done.',
    done: '{name} is told to unload {model}.',
    undo: 'node.model.load',
  },
})
