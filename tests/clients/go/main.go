// A client of TensorFlow Serving as people write it in Go, from the stubs that protoc-gen-go-grpc makes of the public
// protos. It makes one call after the other and prints {call: answer} as JSON; tests/clients/calls.py says what the
// answers have to be.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log"
	"math"
	"os"
	"sort"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bridge.test/client/pb/serving"
	"bridge.test/client/pb/tensorflow"
)

type client struct {
	prediction serving.PredictionServiceClient
	model      serving.ModelServiceClient
	answers    map[string]any
}

func main() {
	address, numbered, words := os.Args[1], os.Args[2], os.Args[3]
	// Dialled as old clients do it: blocking, before the first call.
	dialling, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	//lint:ignore SA1019 this is what clients in use call
	connection, err := grpc.DialContext(dialling, address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithBlock(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		log.Fatalf("no connection to %s: %v", address, err)
	}
	defer connection.Close()
	c := client{serving.NewPredictionServiceClient(connection), serving.NewModelServiceClient(connection), map[string]any{}}

	c.predict("predict", spec("numbered"))
	c.predict("predict, gzip", spec("numbered"), grpc.UseCompressor(gzip.Name))
	c.predict("predict, version", versioned("numbered", 1))
	c.predict("predict, label", labelled("numbered", "stable"))
	explicit := spec("numbered")
	explicit.SignatureName = "serving_default"
	c.predict("predict, signature", explicit)
	c.predictContent("predict, tensor_content")
	c.predictWords("predict, strings")
	c.classify("classify")
	c.regress("regress")
	c.multiInference("multi_inference")
	c.metadata("metadata")
	c.status("status", spec("numbered"))
	c.status("status, version", versioned("numbered", 1))
	c.status("status, unknown", spec("no"))
	c.predict("predict, unknown model", spec("dummy_model"))
	c.predict("predict, unknown version", versioned("numbered", 7))
	c.predict("predict, unknown label", labelled("numbered", "1"))
	c.reload("reload, without labels", numbered, words, nil)
	c.predict("predict, label taken away", labelled("numbered", "stable"))
	c.reload("reload, with labels", numbered, words, map[string]int64{"stable": 1, "canary": 123})
	c.predict("predict, label back", labelled("numbered", "stable"))

	if err := json.NewEncoder(os.Stdout).Encode(c.answers); err != nil {
		log.Fatal(err)
	}
}

func spec(name string) *serving.ModelSpec { return &serving.ModelSpec{Name: name} }

func versioned(name string, version int64) *serving.ModelSpec {
	return &serving.ModelSpec{Name: name, VersionChoice: &serving.ModelSpec_Version{Version: wrapperspb.Int64(version)}}
}

func labelled(name, label string) *serving.ModelSpec {
	return &serving.ModelSpec{Name: name, VersionChoice: &serving.ModelSpec_VersionLabel{VersionLabel: label}}
}

func shape(sizes ...int64) *tensorflow.TensorShapeProto {
	result := &tensorflow.TensorShapeProto{}
	for _, size := range sizes {
		result.Dim = append(result.Dim, &tensorflow.TensorShapeProto_Dim{Size: size})
	}
	return result
}

func sizes(shape *tensorflow.TensorShapeProto) []int64 {
	result := []int64{}
	for _, dim := range shape.GetDim() {
		result = append(result, dim.Size)
	}
	return result
}

func deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Second)
}

func answered(spec *serving.ModelSpec) []any {
	return []any{spec.GetName(), spec.GetVersion().GetValue(), spec.GetSignatureName()}
}

// refused notes the status of a call that failed.
func (c *client) refused(name string, err error) bool {
	if err != nil {
		c.answers[name] = []any{status.Code(err), status.Convert(err).Message()}
	}
	return err != nil
}

func (c *client) predict(name string, spec *serving.ModelSpec, options ...grpc.CallOption) {
	x := &tensorflow.TensorProto{Dtype: tensorflow.DataType_DT_FLOAT, TensorShape: shape(3), FloatVal: []float32{1, 2, 5}}
	c.run(name, spec, x, options...)
}

func (c *client) predictContent(name string) {
	content, _ := hex.DecodeString("0000803f000000400000a040")
	x := &tensorflow.TensorProto{Dtype: tensorflow.DataType_DT_FLOAT, TensorShape: shape(3, 1), TensorContent: content}
	c.run(name, spec("numbered"), x)
}

func (c *client) run(name string, spec *serving.ModelSpec, x *tensorflow.TensorProto, options ...grpc.CallOption) {
	ctx, cancel := deadline()
	defer cancel()
	request := &serving.PredictRequest{ModelSpec: spec, Inputs: map[string]*tensorflow.TensorProto{"x": x}}
	response, err := c.prediction.Predict(ctx, request, options...)
	if c.refused(name, err) {
		return
	}
	y := response.Outputs["y"]
	c.answers[name] = []any{answered(response.ModelSpec), sizes(y.TensorShape), y.FloatVal}
}

func (c *client) predictWords(name string) {
	ctx, cancel := deadline()
	defer cancel()
	words := &tensorflow.TensorProto{
		Dtype: tensorflow.DataType_DT_STRING, TensorShape: shape(3),
		StringVal: [][]byte{[]byte("apple"), []byte("b\xff\xfe"), []byte("")},
	}
	response, err := c.prediction.Predict(ctx, &serving.PredictRequest{
		ModelSpec: spec("strings"), Inputs: map[string]*tensorflow.TensorProto{"words": words},
		OutputFilter: []string{"length", "words"},
	})
	if c.refused(name, err) {
		return
	}
	same := []string{}
	for _, word := range response.Outputs["words"].StringVal {
		same = append(same, hex.EncodeToString(word))
	}
	c.answers[name] = []any{response.Outputs["length"].IntVal, same}
}

func examples(x float32) *serving.Input {
	feature := &tensorflow.Feature{Kind: &tensorflow.Feature_FloatList{FloatList: &tensorflow.FloatList{Value: []float32{x}}}}
	example := &tensorflow.Example{Features: &tensorflow.Features{Feature: map[string]*tensorflow.Feature{"x": feature}}}
	list := &serving.ExampleList{Examples: []*tensorflow.Example{example}}
	return &serving.Input{Kind: &serving.Input_ExampleList{ExampleList: list}}
}

func classes(result *serving.ClassificationResult) []any {
	rows := []any{}
	for _, classifications := range result.Classifications {
		for _, class := range classifications.Classes {
			rows = append(rows, []any{class.Label, class.Score})
		}
	}
	return rows
}

func values(result *serving.RegressionResult) []float32 {
	rows := []float32{}
	for _, regression := range result.Regressions {
		rows = append(rows, regression.Value)
	}
	return rows
}

func (c *client) classify(name string) {
	ctx, cancel := deadline()
	defer cancel()
	spec := versioned("numbered", 1)
	spec.SignatureName = "classify_x_to_y"
	response, err := c.prediction.Classify(ctx, &serving.ClassificationRequest{ModelSpec: spec, Input: examples(20)})
	if !c.refused(name, err) {
		c.answers[name] = []any{answered(response.ModelSpec), classes(response.Result)}
	}
}

func (c *client) regress(name string) {
	ctx, cancel := deadline()
	defer cancel()
	spec := versioned("numbered", 1)
	spec.SignatureName = "regress_x_to_y"
	response, err := c.prediction.Regress(ctx, &serving.RegressionRequest{ModelSpec: spec, Input: examples(80)})
	if !c.refused(name, err) {
		c.answers[name] = []any{answered(response.ModelSpec), values(response.Result)}
	}
}

func (c *client) multiInference(name string) {
	ctx, cancel := deadline()
	defer cancel()
	request := &serving.MultiInferenceRequest{Input: examples(2)}
	for _, kind := range []string{"classify", "regress"} {
		spec := spec("numbered")
		spec.SignatureName = kind + "_x_to_y"
		task := &serving.InferenceTask{ModelSpec: spec, MethodName: "tensorflow/serving/" + kind}
		request.Tasks = append(request.Tasks, task)
	}
	response, err := c.prediction.MultiInference(ctx, request)
	if c.refused(name, err) {
		return
	}
	rows := []any{}
	for _, result := range response.Results {
		if classification := result.GetClassificationResult(); classification != nil {
			rows = append(rows, []any{answered(result.ModelSpec), classes(classification)})
		} else {
			rows = append(rows, []any{answered(result.ModelSpec), values(result.GetRegressionResult())})
		}
	}
	c.answers[name] = rows
}

func (c *client) metadata(name string) {
	ctx, cancel := deadline()
	defer cancel()
	request := &serving.GetModelMetadataRequest{ModelSpec: spec("numbered"), MetadataField: []string{"signature_def"}}
	response, err := c.prediction.GetModelMetadata(ctx, request)
	if c.refused(name, err) {
		return
	}
	signatures := &serving.SignatureDefMap{}
	if err := response.Metadata["signature_def"].UnmarshalTo(signatures); err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	names := []string{}
	for signature := range signatures.SignatureDef {
		names = append(names, signature)
	}
	sort.Strings(names)
	x := signatures.SignatureDef["serving_default"].Inputs["x"]
	c.answers[name] = []any{answered(response.ModelSpec), names, x.GetName(), x.Dtype.String()}
}

func (c *client) status(name string, spec *serving.ModelSpec) {
	ctx, cancel := deadline()
	defer cancel()
	response, err := c.model.GetModelStatus(ctx, &serving.GetModelStatusRequest{ModelSpec: spec})
	if c.refused(name, err) {
		return
	}
	rows := []any{}
	for _, row := range response.ModelVersionStatus {
		rows = append(rows, []any{row.Version, row.State.String(), row.Status.ErrorCode, row.Status.ErrorMessage})
	}
	c.answers[name] = rows
}

func (c *client) reload(name, numbered, words string, labels map[string]int64) {
	ctx, cancel := deadline()
	defer cancel()
	all := &serving.FileSystemStoragePathSourceConfig_ServableVersionPolicy{
		PolicyChoice: &serving.FileSystemStoragePathSourceConfig_ServableVersionPolicy_All_{
			All: &serving.FileSystemStoragePathSourceConfig_ServableVersionPolicy_All{},
		},
	}
	models := &serving.ModelConfigList{Config: []*serving.ModelConfig{
		{Name: "numbered", BasePath: numbered, ModelPlatform: "tensorflow", ModelVersionPolicy: all, VersionLabels: labels},
		{Name: "strings", BasePath: words, ModelPlatform: "tensorflow"},
	}}
	config := &serving.ModelServerConfig{Config: &serving.ModelServerConfig_ModelConfigList{ModelConfigList: models}}
	response, err := c.model.HandleReloadConfigRequest(ctx, &serving.ReloadConfigRequest{Config: config})
	if !c.refused(name, err) {
		c.answers[name] = []any{response.Status.ErrorCode, response.Status.ErrorMessage}
	}
}
