import { Type } from '@sinclair/typebox'
import { literals } from '../shapes.ts'
import { everyModel, modalities, type ServedWork } from './kinds-of-work.ts'

/** How many models of one node have their work declared. */
const servedModelsMax = 256

export const Modality = literals(modalities)

export const ModelWork = Type.Array(Modality, {
  minItems: 1,
  maxItems: modalities.length,
  uniqueItems: true,
  description: 'The kinds of work that the model does, the main one first',
})

/** The names are checked where they are written down. */
export const NodeWork = Type.Unsafe<ServedWork>(
  Type.Record(Type.String(), ModelWork, {
    maxProperties: servedModelsMax,
    description: `The kinds of work of its models, by the node's own names; \`${everyModel}\` stands for the models without a line. null or empty: nothing is declared, and what the server says counts, else what it has answered, else the model's name`,
  }),
)
