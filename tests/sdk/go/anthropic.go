package main

import (
	"context"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func anthropicClient(key string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(url), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func anthropicTold() map[string]any {
	client := anthropicClient(key)
	return map[string]any{
		"messages":        messagesLoop(client, false),
		"messages_stream": messagesLoop(client, true),
		"wrong_key":       anthropicError(anthropicClient("nonsense"), "m"),
		"no_model":        anthropicError(client, "nothing"),
		"abort":           anthropicAbort(client),
	}
}

func begin(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model:     anthropic.Model(model),
		MaxTokens: 1000,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("begin"))},
	}
}

func messagesLoop(client anthropic.Client, streamed bool) []any {
	params := begin("m")
	schema := anthropic.ToolInputSchemaParam{Properties: lookSchema["properties"], Required: []string{"step"}}
	params.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(schema, "look")}
	for turns := 1; ; turns++ {
		message := anthropic.Message{}
		if streamed {
			stream := client.Messages.NewStreaming(ctx, params)
			for stream.Next() {
				must(message.Accumulate(stream.Current()))
			}
			must(stream.Err())
		} else {
			whole, err := client.Messages.New(ctx, params)
			must(err)
			message = *whole
		}
		results := []anthropic.ContentBlockParamUnion{}
		text := ""
		for _, block := range message.Content {
			switch block := block.AsAny().(type) {
			case anthropic.TextBlock:
				text += block.Text
			case anthropic.ToolUseBlock:
				results = append(results, anthropic.NewToolResultBlock(block.ID, look(string(block.Input)), false))
			}
		}
		if message.StopReason != anthropic.StopReasonToolUse {
			return []any{turns, message.StopReason, text}
		}
		params.Messages = append(params.Messages, message.ToParam(), anthropic.NewUserMessage(results...))
	}
}

func anthropicError(client anthropic.Client, model string) []any {
	_, err := client.Messages.New(ctx, begin(model))
	var refused *anthropic.Error
	if !errors.As(err, &refused) {
		return []any{"no error of the API"}
	}
	return []any{refused.StatusCode, refused.Type()}
}

func anthropicAbort(client anthropic.Client) bool {
	leaving, leave := context.WithCancel(ctx)
	stream := client.Messages.NewStreaming(leaving, begin("slow"))
	began := stream.Next()
	leave()
	for stream.Next() {
	}
	return began && errors.Is(stream.Err(), context.Canceled)
}
